import Data.Array.Unboxed

main :: IO ()
main = do
  let a = listArray (0, 20 * 1024 * 1024 - 1) (cycle [1 .. 8]) :: UArray Int Int
  putStrLn (if a ! 7 == 8 then "hello" else "lost")
