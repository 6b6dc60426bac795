# Tries to reach anything: the host, its network, the cloud's metadata, a name
# server. The host's own addresses with an open port are the arguments.
import socket
import sys

targets = [tuple(a.rsplit(":", 1)) for a in sys.argv[1:]]
targets += [(a, "80") for a in ("169.254.169.254", "10.0.0.1", "172.17.0.1", "192.168.0.1", "100.64.0.1", "1.1.1.1")]
for host, port in targets:
    s = socket.socket()
    s.settimeout(0.3)
    try:
        s.connect((host, int(port)))
        print("breach: connects to", host, port)
    except OSError:
        pass
    s.close()
for host in "1.1.1.1", "169.254.169.254":
    try:
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        s.settimeout(0.3)
        s.sendto(b"\0" * 12, (host, 53))
        s.recv(1)
        print("breach: an answer from", host)
    except OSError:
        pass
try:
    socket.getaddrinfo("example.org", 80)
    print("breach: resolves a name")
except OSError:
    pass
print("refused")
