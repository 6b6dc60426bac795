import total


def test_two():
    assert total.total([2, 3]) == 5


def test_none():
    assert total.total([]) == 0
