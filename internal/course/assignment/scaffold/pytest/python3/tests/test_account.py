import pytest

from account import Account


def test_new_account():
    assert Account().balance == 0


def test_deposit():
    account = Account()
    account.deposit(30)
    account.deposit(12)
    assert account.balance == 42


def test_too_much():
    account = Account()
    account.deposit(10)
    with pytest.raises(ValueError):
        account.withdraw(11)
    assert account.balance == 10
