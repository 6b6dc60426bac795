package bench

import (
	"fmt"
	"time"

	"assay/internal/judge"
	"assay/internal/judge/checker"
)

// StabilityLanguages are the IDs of the languages of what Stability judges.
var StabilityLanguages = []string{"c", "python3"}

// kind is what a generated submission does: it computes for a share of the time
// limit, and then does the rest.
type kind struct {
	name  string
	want  judge.Verdict
	share float64
	// then is the statement after computing, by language.
	then map[string]string
}

var (
	answerRight = map[string]string{"c": `printf("%lld\n", 2 * n);`, "python3": `print(2 * n)`}
	answerWrong = map[string]string{"c": `printf("%lld\n", 2 * n + 1);`, "python3": `print(2 * n + 1)`}
)

// kinds are all, at times where a verdict has to be sure. Nothing lies in the
// zone about the limit: there the time itself says nothing.
var kinds = []kind{
	{"0.2 x limit", judge.Accepted, 0.2, answerRight},
	{"0.5 x limit", judge.Accepted, 0.5, answerRight},
	{"0.8 x limit", judge.Accepted, 0.8, answerRight},
	{"wrong answer", judge.WrongAnswer, 0.02, answerWrong},
	{"crash", judge.RunTimeError, 0.02, map[string]string{"c": `abort();`, "python3": `raise ValueError(n)`}},
	{"1.3 x limit", judge.TimeLimitExceeded, 1.3, answerRight},
	{"endless loop", judge.TimeLimitExceeded, 0.02, map[string]string{"c": `for (;;) mix(1000);`, "python3": "while True:\n    mix(1000)"}},
	{"endless memory", judge.MemoryLimitExceeded, 0.02, map[string]string{
		"c":       `for (;;) memset(malloc(8 << 20), 7, 8 << 20);`,
		"python3": "held = []\nwhile True:\n    held.append(b'7' * (8 << 20))",
	}},
	{"endless output", judge.OutputLimitExceeded, 0.02, map[string]string{"c": `for (;;) puts("0123456789abcdef");`, "python3": "while True:\n    print('0123456789abcdef' * 64)"}},
}

// spreadKind is the one whose times are compared.
const spreadKind = 0

const cProgram = `/* %d */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static uint64_t x = 88172645463325252ull;
static void mix(uint64_t rounds) {
    for (uint64_t i = 0; i < rounds; i++) x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    if (!x) puts("never");
}
int main(void) {
    long long n;
    if (scanf("%%lld", &n) != 1) return 1;
    mix(%dull);
    %s
    return 0;
}
`

const pythonProgram = `# %d
def mix(rounds):
    x = 1
    for _ in range(rounds):
        x = (x * 25214903917 + 11) & 0xffffffffffff
    return x


n = int(input())
mix(%d)
%s
`

// submissionOf makes the program of a kind; number makes it unlike all others.
func submissionOf(number int, language string, k kind, rounds int64) judge.Submission {
	text, file := cProgram, "main.c"
	if language == "python3" {
		text, file = pythonProgram, "main.py"
	}
	return judge.Submission{
		Name: fmt.Sprintf("%03d %s %s", number, language, k.name), Language: language,
		Files: []judge.SourceFile{{Name: file, Data: fmt.Appendf(nil, text, number, rounds, k.then[language])}},
	}
}

// The limits of the problem: a fifth of the time is a 200 ms program.
const (
	stabilityLimit  = time.Second
	stabilityMemory = 256 << 20
	stabilityOutput = 1 << 20
)

// double is the problem: print twice the number read.
func double(limit time.Duration) judge.Problem {
	return judge.Problem{
		ShortName: "double", Name: "Double",
		Limits:  judge.ProblemLimits{CPU: limit, Memory: stabilityMemory, Output: stabilityOutput},
		Cases:   []judge.Case{{Name: "secret/1", Input: judge.BytesBlob("1.in", []byte("21\n")), Answer: judge.BytesBlob("1.ans", []byte("42\n"))}},
		Checker: checker.Default{},
	}
}
