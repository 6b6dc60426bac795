# It ends without a guess.
