main :: IO ()
main = do
  let xs = [1 .. 10 ^ (9 :: Int)] :: [Integer]
  print (sum xs)
  print (length xs)
