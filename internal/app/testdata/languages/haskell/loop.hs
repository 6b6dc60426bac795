import Data.IORef

main :: IO ()
main = newIORef (0 :: Int) >>= spin
  where spin r = modifyIORef' r (+ 1) >> spin r
