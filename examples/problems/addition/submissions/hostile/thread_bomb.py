# @EXPECTED_RESULTS@: RE, TLE, MLE
# Threads without end; each waits for ever.
import threading

stop = threading.Event()
while True:
    threading.Thread(target=stop.wait).start()
