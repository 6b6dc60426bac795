// Write the sum of the numbers in the input.
