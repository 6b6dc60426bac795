const words = require("fs").readFileSync(0, "utf8").split(/\s+/).filter(Boolean);
console.log(words.reduce((sum, word) => sum + Number(word), 0));
