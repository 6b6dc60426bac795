package judge

import (
	"time"

	"assay/internal/fault"
	"assay/internal/sandbox"
)

// What holds where neither problem nor language says something else.
const (
	defaultMemory    = 2048 << 20
	defaultOutput    = 8 << 20
	defaultCode      = 128 << 10
	defaultProcesses = 64
	// fileSizeCap and diskCap bound what a program may write beside its output.
	fileSizeCap = 64 << 20
	diskCap     = 256 << 20

	defaultCompileTime = 60 * time.Second
	compileOutput      = 1 << 20
	compileFileSize    = 64 << 20
	compileDisk        = 512 << 20

	defaultValidationTime   = 60 * time.Second
	defaultValidationOutput = 8 << 20
	// A checker may well be written for a runtime with many threads.
	validationProcesses = 256

	// keepTime bounds the copying of a program.
	keepTime     = 10 * time.Second
	selfTestTime = 10 * time.Second
)

// DefaultWall is the wall limit where none is given: a net for programs that
// wait, wide enough for one that computes.
func DefaultWall(cpu time.Duration) time.Duration { return 2*cpu + time.Second }

// emulatedFactor is by how much a processor that is emulated is slower, at most:
// 5 to 15 times were measured.
const emulatedFactor = 15

// EmulatedWarning goes with every result of an emulated processor.
const EmulatedWarning = "emulated: times are not comparable"

// in are the limits in a machine. Where its processor is emulated those of time
// are so wide that only programs that do not end, or nearly so, meet them.
func (p ProblemLimits) in(m MachineInfo) ProblemLimits {
	if !m.Emulated {
		return p
	}
	p.CPU *= emulatedFactor
	p.Wall *= emulatedFactor
	p.CompileTime = emulatedFactor * time.Duration(orDefault(int64(p.CompileTime), int64(defaultCompileTime)))
	p.ValidationTime = emulatedFactor * time.Duration(orDefault(int64(p.ValidationTime), int64(defaultValidationTime)))
	return p
}

// caseLimits are the limits a case is judged by: the problem's, as the language
// and the machine change them. A limit that the problem states and the machine
// cannot give is Unsupported: to judge by less would be unfair.
func caseLimits(p ProblemLimits, lang Language, shape sandbox.Shape) (sandbox.Limits, error) {
	if p.CPU <= 0 {
		return sandbox.Limits{}, fault.Errorf(fault.Invalid, "the problem has no time limit").
			WithHint("give a time limit above zero")
	}
	for _, n := range []int64{int64(p.Wall), p.Memory, p.Output, int64(p.Processes), p.Code, int64(p.CompileTime), p.CompileMemory, int64(p.ValidationTime), p.ValidationMemory, p.ValidationOutput} {
		if n < 0 {
			return sandbox.Limits{}, fault.Errorf(fault.Invalid, "a limit of the problem is negative").
				WithHint("give limits above zero, or leave them out")
		}
	}
	cpu := p.CPU
	if lang.Limits.TimeFactor > 0 {
		cpu = time.Duration(float64(cpu) * lang.Limits.TimeFactor)
	}
	l := sandbox.Limits{
		CPU: cpu, Wall: p.Wall, Output: orDefault(p.Output, defaultOutput),
		Processes: int(orDefault(int64(lang.Limits.Processes), defaultProcesses)),
		FileSize:  fileSizeCap, Disk: diskCap,
	}
	if p.Processes > 0 {
		l.Processes = p.Processes
	}
	if l.Wall == 0 {
		l.Wall = DefaultWall(cpu)
	}
	memory, err := machineMemory(p.Memory, shape)
	if err != nil {
		return sandbox.Limits{}, err
	}
	l.Memory = memory + lang.Limits.MemoryOverheadMiB<<20
	if shape.Memory > 0 {
		l.Memory = min(l.Memory, shape.Memory)
	}
	return l, nil
}

func compileLimits(p ProblemLimits, lang Language, shape sandbox.Shape) (sandbox.Limits, error) {
	memory, err := machineMemory(p.CompileMemory, shape)
	if err != nil {
		return sandbox.Limits{}, err
	}
	cpu := p.CompileTime
	if cpu == 0 {
		cpu = defaultCompileTime
	}
	return sandbox.Limits{
		CPU: cpu, Wall: DefaultWall(cpu), Memory: memory, Output: compileOutput,
		Processes: int(orDefault(int64(lang.Compile.Processes), defaultProcesses)),
		FileSize:  compileFileSize, Disk: compileDisk,
	}, nil
}

// validationLimits are those of one call of a jury program.
func validationLimits(p ProblemLimits, shape sandbox.Shape) (sandbox.Limits, error) {
	memory, err := machineMemory(p.ValidationMemory, shape)
	if err != nil {
		return sandbox.Limits{}, err
	}
	cpu := p.ValidationTime
	if cpu == 0 {
		cpu = defaultValidationTime
	}
	return sandbox.Limits{
		CPU: cpu, Wall: DefaultWall(cpu), Memory: memory, Output: orDefault(p.ValidationOutput, defaultValidationOutput),
		Processes: validationProcesses, FileSize: fileSizeCap, Disk: diskCap,
	}, nil
}

// machineNeed is the memory of a machine that can give all limits.
func machineNeed(p ProblemLimits, lang Language) int64 {
	need := int64(defaultMemory)
	if p.Memory > 0 {
		need = p.Memory + lang.Limits.MemoryOverheadMiB<<20
	}
	return max(need, orDefault(p.CompileMemory, defaultMemory))
}

// machineMemory is a stated memory limit, or the default as far as the machine
// has it.
func machineMemory(stated int64, shape sandbox.Shape) (int64, error) {
	if stated == 0 {
		if shape.Memory > 0 {
			return min(defaultMemory, shape.Memory), nil
		}
		return defaultMemory, nil
	}
	if shape.Memory > 0 && stated > shape.Memory {
		return 0, fault.Errorf(fault.Unsupported, "the problem's memory limit of %s does not fit a machine of %s", sizeText(stated), sizeText(shape.Memory)).
			WithHint("use a template with a larger machine, or lower the problem's limit")
	}
	return stated, nil
}

func orDefault(n, def int64) int64 {
	if n == 0 {
		return def
	}
	return n
}
