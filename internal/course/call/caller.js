// Calls functions of a student's module for one test.
//
// Standard input begins with the request: four bytes of length, then JSON with
// tagged values; the rest is the student's. The results go to a file. What is used
// after the module was loaded is held in constants: a module may change anything
// that is global. Nothing here needs to be safe from it, though: results are only
// claims about values.
'use strict';

const fs = require('fs');
const path = require('path');
const { Writable } = require('stream');
const vm = require('vm');
const { pathToFileURL } = require('url');

const RESULT = '/box/out/result';
const MODULE = process.env.ASSAY_MODULE;
const { stringify, parse } = JSON;
const { isInteger, MAX_SAFE_INTEGER } = Number;
const { isArray } = Array;
const { getPrototypeOf, keys } = Object;
const { openSync, writeSync, closeSync, readSync, readFileSync } = fs;
const exit = process.reallyExit.bind(process);
const ERRORS = [RangeError, ReferenceError, SyntaxError, TypeError, EvalError, URIError, Error];
const NAMES = ['RangeError', 'ReferenceError', 'SyntaxError', 'TypeError', 'EvalError', 'URIError', 'Error'];
const PLAIN = Object.prototype;
const SAFE = 2n ** 53n;
const PIECE = 16 << 10;
const { concat } = Buffer;
const flushes = [];

function flushAll() {
  for (const flush of flushes) flush();
}

class Unplain {
  constructor(why) {
    this.why = why;
  }
}

function decode(value) {
  if (value === null || typeof value !== 'object') return value;
  const tag = keys(value)[0];
  const body = value[tag];
  switch (tag) {
    case 'i':
      return BigInt(body);
    case 'f':
      return body === 'nan' ? NaN : body === 'inf' ? Infinity : body === '-inf' ? -Infinity : Number(body);
    case 'b':
      return new Uint8Array(Buffer.from(body, 'base64'));
    case 'l':
    case 't':
      return body.map(decode);
    case 's':
    case 'z':
      return new Set(body.map(decode));
    case 'd': {
      const pairs = body.map(([k, v]) => [decode(k), decode(v)]);
      if (pairs.some(([k]) => typeof k !== 'string')) return new Map(pairs);
      const object = {};
      for (const [k, v] of pairs) Object.defineProperty(object, k, { value: v, writable: true, enumerable: true, configurable: true });
      return object;
    }
    case 'dt':
    case 'date':
      return new Date(body);
  }
  throw new Unplain(`an argument with the tag ${tag}: JavaScript has no such value`);
}

function encodeNumber(n) {
  if (isInteger(n) && !Object.is(n, -0) && n <= MAX_SAFE_INTEGER && n >= -MAX_SAFE_INTEGER) return n;
  let text = Object.is(n, -0) ? '-0.0' : n !== n ? 'nan' : n === Infinity ? 'inf' : n === -Infinity ? '-inf' : `${n}`;
  return { f: text };
}

function encodeText(s) {
  for (let i = 0; i < s.length; i++) {
    const c = s.charCodeAt(i);
    if (c < 0xd800 || c > 0xdfff) continue;
    const next = s.charCodeAt(i + 1);
    if (c < 0xdc00 && next >= 0xdc00 && next <= 0xdfff) i++;
    else throw new Unplain('a text with half a character');
  }
  return s;
}

function encode(value, depth) {
  if (depth > 150) throw new Unplain('a value that is nested too deeply');
  switch (typeof value) {
    case 'undefined':
      return null;
    case 'boolean':
      return value;
    case 'number':
      return encodeNumber(value);
    case 'bigint':
      return value <= SAFE && value >= -SAFE ? Number(value) : { i: `${value}` };
    case 'string':
      return encodeText(value);
    case 'object':
      break;
    default:
      throw new Unplain(`a ${typeof value}`);
  }
  if (value === null) return null;
  const all = (list) => {
    const out = [];
    for (const v of list) out[out.length] = encode(v, depth + 1);
    return out;
  };
  if (isArray(value)) return { l: all(value) };
  if (value instanceof Set) return { s: all(value) };
  if (value instanceof Uint8Array) return { b: Buffer.from(value).toString('base64') };
  const pairs = (list) => {
    const out = [];
    for (const [k, v] of list) out[out.length] = [encode(k, depth + 1), encode(v, depth + 1)];
    return { d: out };
  };
  if (value instanceof Map) return pairs(value);
  if (value instanceof Date) return { dt: value.toISOString() };
  const parent = getPrototypeOf(value);
  if (parent === PLAIN || parent === null) return pairs(Object.entries(value));
  throw new Unplain(`an object of class ${parent.constructor ? parent.constructor.name : '(none)'}`);
}

function describe(error) {
  let name = 'Error';
  let text = '';
  let trace = '';
  let above = '';
  try {
    if (error !== null && typeof error === 'object') {
      name = `${error.constructor ? error.constructor.name : ''}` || 'Error';
      text = `${error.message}`;
      const at = ERRORS.findIndex((c) => error instanceof c);
      above = at < 0 ? '' : NAMES[at];
      const folder = path.dirname(MODULE) + '/';
      trace = `${error.stack}`.split('\n').filter((l) => l.includes(folder)).slice(0, 12).map((l) => l.trim().replace(folder, '')).join('\n');
    } else {
      name = typeof error;
      text = `${String(error)}`;
    }
  } catch {
    // An exception that cannot be looked at has its class only.
  }
  return { class: name.slice(0, 200), above, text: text.slice(0, 4000), trace: trace.slice(0, 2000) };
}

// load gives a lookup of names: exports of the module, or what a plain script
// declares at its top.
async function load() {
  let found;
  try {
    found = require(MODULE);
  } catch (e) {
    if (e.code !== 'ERR_REQUIRE_ESM' && !(e instanceof SyntaxError && /import|export|await/.test(e.message))) throw e;
    const copy = e.code === 'ERR_REQUIRE_ESM' ? MODULE : asModule();
    found = await import(pathToFileURL(copy).href);
  }
  if (typeof found === 'function' || keys(found).length > 0) {
    return (name) => (typeof found === 'function' && found.name === name ? found : found[name] ?? (found.default && (found.default.name === name ? found.default : found.default[name])));
  }
  const script = new vm.Script(`(function (exports, require, module) {${readFileSync(MODULE, 'utf8')}\nreturn (name) => eval(name);\n})`, { filename: MODULE });
  const lookup = script.runInThisContext()({}, require, {});
  return (name) => {
    try {
      return lookup(name);
    } catch (e) {
      if (e instanceof ReferenceError) return undefined;
      throw e;
    }
  };
}

// A file that uses import or export and is called .js: Node wants another name.
function asModule() {
  const copy = '/tmp/' + path.basename(MODULE).replace(/\.[^.]*$/, '') + '.mjs';
  fs.copyFileSync(MODULE, copy);
  return copy;
}

async function doSteps(steps, find) {
  const results = [];
  let made;
  for (const step of steps) {
    const name = step.new || step.call || step.get;
    let result;
    try {
      const args = (step.args || []).map(decode);
      const owner = made ? made.object : undefined;
      const parts = name.split('.');
      let self = owner;
      let target = owner ? owner[parts[0]] : find(parts[0]);
      for (const part of parts.slice(1)) {
        self = target;
        target = target == null ? undefined : target[part];
      }
      if (target === undefined || (!step.get && typeof target !== 'function')) {
        result = { missing: name };
      } else {
        let value = target;
        if (step.new) {
          made = { object: new target(...args) };
          value = null;
        } else if (step.call) {
          value = await target.apply(self, args);
        }
        result = { value: encode(value, 0) };
        if (step.after) result.after = args.map((a) => encode(a, 0));
      }
    } catch (e) {
      result = e instanceof Unplain ? { unplain: e.why } : { raised: describe(e) };
    }
    results.push(result);
    if (step.new && !made) break;
  }
  return results;
}

function readRequest() {
  const take = (n) => {
    const b = Buffer.alloc(n);
    for (let at = 0; at < n; ) {
      const got = readSync(0, b, at, n - at, null);
      if (got === 0) exit(98);
      at += got;
    }
    return b;
  };
  return parse(take(take(4).readUInt32BE(0)).toString('utf8'));
}

function finish(answer) {
  flushAll();
  const data = Buffer.from(stringify(answer), 'utf8');
  const fd = openSync(RESULT, 'w');
  for (let at = 0; at < data.length; ) at += writeSync(fd, data, at);
  closeSync(fd);
  exit(0);
}

async function main() {
  const request = readRequest();
  // The streams that Node makes are never touched: they would make the pipes such
  // that a long output is refused in the middle. A write costs much in a machine,
  // so small ones are put together.
  for (const [name, fd] of [['stdout', 1], ['stderr', 2]]) {
    let kept = [];
    let size = 0;
    const flush = () => {
      const data = concat(kept);
      kept = [];
      size = 0;
      for (let at = 0; at < data.length; ) at += writeSync(fd, data, at);
    };
    const stream = new Writable({
      write(chunk, encoding, done) {
        kept[kept.length] = chunk;
        size += chunk.length;
        if (size > PIECE) flush();
        done();
      },
    });
    stream.fd = fd;
    Object.defineProperty(process, name, { value: stream, configurable: true });
    flushes[flushes.length] = flush;
  }
  process.on('exit', flushAll);
  let find;
  try {
    find = await load();
  } catch (e) {
    const lines = e instanceof SyntaxError ? `${e.stack}`.split('\n')[0] : '';
    finish({ failed: describe(e), syntax: lines.replace(path.dirname(MODULE) + '/', '') });
  }
  finish(await doSteps(request.steps || [], find));
}

main();
