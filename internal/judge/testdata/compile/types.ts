// The compiler's types can count, too: this one doubles itself.
type Twice<T extends unknown[], N extends unknown[]> = N["length"] extends 60 ? T : Twice<[...T, ...T], [...N, 1]>
const bomb: Twice<[1], []> = [1, 1, 1]
console.log(bomb.length)
