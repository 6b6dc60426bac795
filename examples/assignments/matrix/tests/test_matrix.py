import pytest

from matrix import Matrix


@pytest.fixture
def square():
    return Matrix([[1, 2], [3, 4]])


def test_rows(square):
    assert square.rows == [[1, 2], [3, 4]]


def test_equal(square):
    assert square == Matrix([[1, 2], [3, 4]])
    assert square != Matrix([[1, 2], [3, 5]])


def test_sum(square):
    assert (square + square).rows == [[2, 4], [6, 8]]


def test_entry(square):
    assert square[1, 0] == 3
    with pytest.raises(IndexError):
        square[2, 0]


def test_shape_is_checked():
    with pytest.raises(ValueError):
        Matrix([[1, 2], [3]])


def test_product():
    assert (Matrix([[1, 2]]) * Matrix([[3], [4]])).rows == [[11]]


@pytest.mark.parametrize("n, want", [(0, [[1, 0], [0, 1]]), (1, [[1, 2], [3, 4]]), (3, [[37, 54], [81, 118]])])
def test_power(square, n, want):
    assert (square**n).rows == want
