bool is_leap(int year)
{
    return false; // Is it a leap year?
}
