from leap import is_leap


def test_2023():
    assert is_leap(2023) is False


def test_2024():
    assert is_leap(2024) is True


def test_1900():
    assert is_leap(1900) is False


def test_2000():
    assert is_leap(2000) is True


def test_1():
    assert is_leap(1) is False


def test_4():
    assert is_leap(4) is True


def test_100():
    assert is_leap(100) is False


def test_400():
    assert is_leap(400) is True


def test_2100():
    assert is_leap(2100) is False


def test_1996():
    assert is_leap(1996) is True
