"""Runs the teacher's tests against stand-ins and reports test by test.

The host starts it before there are any tests, and sends a line when they and the
JSON file of settings are there. Reports are frames of kind
"report" to the host; nothing else but the border uses that stream.
"""

import os
import sys
from typing import Any, Dict, Optional

import pytest
from _assay import border, clock, shared, standin

#: How much of a failure's text is kept.
TEXT = 16 << 10
_OURS = os.path.dirname(os.path.abspath(__file__)) + os.sep


class Reporter:
    """The plugin that tells the host what happens."""

    def __init__(self, tests: standin.Standin, seconds: float) -> None:
        self.tests, self.seconds = tests, seconds
        tests.begin_test(seconds)

    def report(self, what: str, **more: Any) -> None:
        with self.tests.lock:
            self.tests.send({"k": "report", "t": what, **more})

    def pytest_collection_finish(self, session: Any) -> None:
        self.tests.collected = True
        self.report("collected", ids=[item.nodeid for item in session.items])

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self.report("uncollected", id=report.nodeid, text=_text(report))

    def pytest_runtest_logstart(self, nodeid: str, location: Any) -> None:
        self.report("start", id=nodeid)
        self.tests.begin_test(self.seconds)

    def pytest_runtest_logreport(self, report: Any) -> None:
        expected = hasattr(report, "wasxfail")
        self.report("phase", id=report.nodeid, when=report.when, outcome=report.outcome, xfail=expected, text=_text(report))

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item: Any, call: Any) -> Any:
        if call.excinfo is not None:
            _hide_ours(call.excinfo.value)
        self.tests.quiet = True
        yield
        self.tests.quiet = False

    def pytest_runtest_logfinish(self, nodeid: str, location: Any) -> None:
        self.report("finish", id=nodeid)


def _hide_ours(error: Optional[BaseException]) -> None:
    """Takes our frames out of tracebacks.

    They say nothing about the test, and pytest reads the source of each.
    """
    for _ in range(10):
        if error is None:
            return
        at = error.__traceback__
        while at is not None and at.tb_next is not None:
            if at.tb_next.tb_frame.f_code.co_filename.startswith(_OURS):
                at.tb_next = at.tb_next.tb_next
            else:
                at = at.tb_next
        error = error.__cause__ or error.__context__


def _text(report: Any) -> str:
    if report.passed or not report.longrepr:
        return ""
    text = report.longreprtext
    if len(text) > TEXT:
        text = text[: TEXT // 2] + "\n...\n" + text[-TEXT // 2 :]
    return text.encode("utf-8", "replace").decode("utf-8")


def _take_streams() -> Any:
    incoming, outgoing = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    return incoming, outgoing


def _sources(folder: str) -> Dict[str, str]:
    """The Python files of a folder, by the names of their modules."""
    found = {}
    for where, _, names in os.walk(folder):
        for name in sorted(names):
            if name.endswith(".py"):
                path = os.path.join(where, name)
                module = os.path.relpath(path, folder)[:-3].replace(os.sep, ".")
                with open(path, encoding="utf-8", errors="replace") as f:
                    found[module] = f.read()
    return found


def main() -> Optional[int]:
    settings = border.awake(sys.argv[1])
    incoming, outgoing = _take_streams()
    sys.path[:] = [p for p in sys.path if p != settings["library"]]
    sys.argv = ["pytest"]
    os.chdir(settings["tests"])
    solution = _sources(settings["solution"])
    answers = standin.operators_of(list(solution.values()))
    tests = standin.Standin(incoming, outgoing, settings["tests"], settings["root"], settings["value_classes"], answers)
    tests.protocols = standin.protocols_of(list(solution.values()))
    for module, source in solution.items():
        names = standin.names_of(source)
        if names is not None:
            tests.names[module] = tests.names[module.rpartition(".")[2]] = names
    shared.guard_pickle(settings["tests"])
    tests.student.update(settings["modules"])
    standin.follow_seed(tests)
    finder = standin.Finder(tests, settings["modules"], settings["tests"])
    tests.student.update(finder.packages)
    if settings["first"]:
        sys.meta_path.insert(0, finder)
    else:
        sys.meta_path.append(finder)
    if settings["clock_moved"]:
        clock.move(settings["clock_moved"])
    reporter = Reporter(tests, settings["cpu_seconds"])
    code = pytest.main(
        ["-c", settings["config"], "--rootdir", settings["tests"], "-p", "no:cacheprovider", "-q", "--tb=short", *settings["paths"]],
        plugins=[reporter],
    )
    reporter.report("done", code=int(code))
    return 0


if __name__ == "__main__":
    os._exit(main() or 0)
