const all: number[][] = []
for (;;) all.push(new Array(1 << 17).fill(1.5))
