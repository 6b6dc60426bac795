const all = []
for (let i = 0; i < 160; i++) all.push(new Int32Array(1 << 18).fill(i))
console.log(all[7][7] === 7 ? "hello" : "lost")
