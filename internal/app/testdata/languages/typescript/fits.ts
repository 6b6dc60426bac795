const all: number[][] = []
for (let i = 0; i < 160; i++) all.push(new Array(1 << 17).fill(i + 0.5))
console.log(all[7][7] === 7.5 ? "hello" : "lost")
