line = input()
# Write the sum of the numbers in the line.
