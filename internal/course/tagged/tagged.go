// Package tagged is how values travel between a student's machine, a grader's
// machine and the host: JSON, with a tag on what JSON does not have.
//
// null, booleans, strings and integers within ±2^53 are as they are. Everything
// else is an object with one key:
//
//	{"i":"123…"}            an integer of any size
//	{"f":"1.5"}             any float, shortest form; "nan", "inf", "-inf", "-0.0"
//	{"c":["re","im"]}       complex
//	{"b":"base64"}          bytes
//	{"u":"base64"}          a string with lone surrogates, as UTF-8 that has them
//	{"l":[…]} {"t":[…]}     list, tuple
//	{"s":[…]} {"z":[…]}     set, frozenset
//	{"d":[[k,v],…]}         dict, in its order
//	{"range":[a,b,c]} {"dec":"1.50"} {"frac":["1","2"]}
//	{"date":"2026-01-02"} {"dt":"…"} {"tm":"…"} {"td":[days,seconds,micros]}
//	{"np":{"dtype":"<i8","shape":[2,2],"data":"base64, C order"}}
//	{"nps":{"dtype":"<f8","data":"base64"}}
//	{"h":{…}}               a handle, in mode pytest only
//
// Only values whose type is exactly a plain one are carried so: an instance of a
// subclass could answer comparisons itself. Nothing is ever unpickled or
// evaluated.
//
// On the host values are read by Decode or, as teachers write them, by FromYAML,
// and compared by Diff. Python is the codec for Python. The package must not know
// any mode.
package tagged

import _ "embed"

// Python is the module tagged.py: both machines import it.
//
//go:embed tagged.py
var Python []byte
