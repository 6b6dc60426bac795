main :: IO ()
main = putStrLn 7
