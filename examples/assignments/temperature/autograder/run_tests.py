"""Runs the tests and writes results.json as the format wants it."""

import json
import unittest

POINTS = {"test_boiling": 2, "test_freezing": 2, "test_body": 2, "test_below": 4}


def main():
    suite = unittest.defaultTestLoader.discover("tests")
    tests = []
    for case in cases(suite):
        result = unittest.TestResult()
        case.run(result)
        name = case.id().rsplit(".", 1)[-1]
        points = POINTS.get(name, 0)
        bad = result.failures + result.errors
        tests.append({
            "name": name,
            "score": 0 if bad else points,
            "max_score": points,
            "output": bad[0][1].splitlines()[-1] if bad else "",
        })
    with open("/autograder/results/results.json", "w") as f:
        json.dump({"tests": tests}, f)


def cases(suite):
    for item in suite:
        if isinstance(item, unittest.TestSuite):
            yield from cases(item)
        else:
            yield item


main()
