package call

import (
	"path"
	"slices"
	"strings"

	"assay/internal/judge"
)

// dialect is what a language needs beside what the judge knows of it.
type dialect struct {
	// runner makes the runner of a session.
	runner func(*session) runner
	// extensions are of files that can be the module.
	extensions []string
	// together says that all sources make the program, and none is its entry.
	together bool
	// loose is for languages that do not tell an int from a float, or a list from
	// a tuple, as Python does: see tagged.Rules.
	loose bool
	// exits is the class that is raised by asking for the program's end.
	exits string
	// above are the exceptions of the language itself, each with the one above it.
	above map[string]string
}

// is reports whether an exception is of a class, or of one below it. Only the
// language's own classes are known here: a program can claim one class and the
// nearest that the language has, and no more.
func (d dialect) is(r raised, class string) bool {
	class = short(class)
	if short(r.Class) == class {
		return true
	}
	for c := short(r.Above); c != ""; c = d.above[c] {
		if c == class {
			return true
		}
	}
	return false
}

// short is a class without its module, package or namespace.
func short(class string) string {
	return class[strings.LastIndexAny(class, ".:")+1:]
}

func (d dialect) source(name string) bool { return slices.Contains(d.extensions, path.Ext(name)) }

// dialectOf gives the dialect of a language of the judge.
func dialectOf(l judge.Language) (dialect, bool) {
	d, ok := map[string]dialect{"python3": python, "cpp": cpp, "cpp23": cpp, "java": java, "javascript": javascript}[l.ID]
	return d, ok
}

// tree reads lines of "CLASS: CLASS BELOW…".
func tree(text string) map[string]string {
	above := map[string]string{}
	for line := range strings.Lines(text) {
		class, below, _ := strings.Cut(strings.TrimSpace(line), ":")
		for _, b := range strings.Fields(below) {
			above[b] = class
		}
	}
	return above
}

var python = dialect{
	runner:     func(x *session) runner { return &server{x: x} },
	extensions: []string{".py"}, exits: "SystemExit",
	above: tree(`BaseException: SystemExit KeyboardInterrupt GeneratorExit Exception BaseExceptionGroup
		Exception: StopIteration StopAsyncIteration ArithmeticError AssertionError AttributeError BufferError EOFError ImportError LookupError MemoryError NameError OSError ReferenceError RuntimeError SyntaxError SystemError TypeError ValueError Warning ExceptionGroup
		ArithmeticError: FloatingPointError OverflowError ZeroDivisionError
		ImportError: ModuleNotFoundError
		LookupError: IndexError KeyError
		NameError: UnboundLocalError
		OSError: BlockingIOError ChildProcessError ConnectionError FileExistsError FileNotFoundError InterruptedError IsADirectoryError NotADirectoryError PermissionError ProcessLookupError TimeoutError
		ConnectionError: BrokenPipeError ConnectionAbortedError ConnectionRefusedError ConnectionResetError
		RuntimeError: NotImplementedError RecursionError
		SyntaxError: IndentationError
		IndentationError: TabError
		ValueError: UnicodeError
		UnicodeError: UnicodeDecodeError UnicodeEncodeError UnicodeTranslateError
		Warning: DeprecationWarning PendingDeprecationWarning RuntimeWarning SyntaxWarning UserWarning FutureWarning ImportWarning UnicodeWarning BytesWarning ResourceWarning EncodingWarning`),
}

var cpp = dialect{
	runner: cppRunner, extensions: []string{".cpp", ".cc", ".cxx", ".h", ".hh", ".hpp"}, loose: true,
	above: tree(`exception: logic_error runtime_error bad_alloc bad_cast bad_optional_access bad_variant_access bad_function_call
		logic_error: invalid_argument domain_error length_error out_of_range
		runtime_error: range_error overflow_error underflow_error system_error
		bad_alloc: bad_array_new_length`),
}

var java = dialect{
	runner: javaRunner, extensions: []string{".java"}, together: true, loose: true,
	above: tree(`Throwable: Exception Error
		Exception: RuntimeException IOException CloneNotSupportedException InterruptedException ReflectiveOperationException TimeoutException
		IOException: FileNotFoundException UncheckedIOException EOFException
		ReflectiveOperationException: ClassNotFoundException NoSuchFieldException NoSuchMethodException
		RuntimeException: ArithmeticException ArrayStoreException ClassCastException IllegalArgumentException IllegalStateException IndexOutOfBoundsException NegativeArraySizeException NullPointerException UnsupportedOperationException NoSuchElementException ConcurrentModificationException EmptyStackException DateTimeException
		IllegalArgumentException: NumberFormatException
		IndexOutOfBoundsException: ArrayIndexOutOfBoundsException StringIndexOutOfBoundsException
		NoSuchElementException: InputMismatchException
		Error: AssertionError LinkageError VirtualMachineError
		VirtualMachineError: OutOfMemoryError StackOverflowError`),
}

var javascript = dialect{
	runner: javascriptRunner, extensions: []string{".js", ".mjs", ".cjs"}, loose: true,
	above: tree(`Error: RangeError ReferenceError SyntaxError TypeError EvalError URIError AggregateError`),
}
