import unittest

import temperature


class TestTemperature(unittest.TestCase):
    def test_boiling(self):
        self.assertEqual(temperature.fahrenheit(100), 212)

    def test_freezing(self):
        self.assertEqual(temperature.fahrenheit(0), 32)

    def test_body(self):
        self.assertEqual(temperature.fahrenheit(37), 99)

    def test_below(self):
        self.assertEqual(temperature.fahrenheit(-40), -40)
        self.assertEqual(temperature.fahrenheit(-39), -38)
