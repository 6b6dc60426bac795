# @EXPECTED_RESULTS@: AC
# Right, as long as nothing outside can be reached; silent otherwise.
import socket
import sys

words = sys.stdin.read().split()
reached = False
for host, port in (("169.254.169.254", 80), ("10.0.0.1", 22), ("172.17.0.1", 2375), ("192.168.0.1", 80), ("1.1.1.1", 443)):
    try:
        socket.create_connection((host, port), timeout=0.1).close()
        reached = True
    except OSError:
        pass
try:
    socket.getaddrinfo("example.org", 80)
    reached = True
except OSError:
    pass
if not reached:
    print(sum(map(int, words[1:])))
