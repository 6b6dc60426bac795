/* Tries to open sockets below TCP and UDP. */
#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>

int main(void) {
    if (socket(AF_INET, SOCK_RAW, IPPROTO_ICMP) >= 0 || socket(AF_INET, SOCK_RAW, IPPROTO_RAW) >= 0 ||
        socket(AF_INET6, SOCK_RAW, IPPROTO_ICMPV6) >= 0)
        printf("breach: raw socket\n");
    if (socket(AF_PACKET, SOCK_RAW, htons(ETH_P_ALL)) >= 0 || socket(AF_PACKET, SOCK_DGRAM, htons(ETH_P_ALL)) >= 0)
        printf("breach: packet socket\n");
    printf("refused\n");
    return 0;
}
