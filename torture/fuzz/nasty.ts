import type { Random } from "./random";

/** JSON text as it is to stand, which no `JSON.stringify` would write: twice the same key, numbers beyond all bounds. */
export class Raw {
  constructor(readonly text: string) {}
}

/** Names that mean something to an engine, to LangChain or to the codec. */
export const KEYS: readonly string[] = [
  ...["__proto__", "constructor", "prototype", "toString", "valueOf", "toJSON", "then", "hasOwnProperty", "__defineGetter__"],
  ...["length", "name", "message", "stack", "cause", "errors", "lastIndex", "get", "set", "value"],
  ...["~", "v", "p", "d", "a", "n", "c", "i", "t", "k", "o", "s"],
  ...["lc", "lc_kwargs", "lc_secrets", "lc_serializable", "type", "id", "kwargs", "args", "method", "__lc_escaped__", "lg_name"],
  ...["", "0", "-1", "4294967295", "nodes", "channels", "edges", "result", "error", "unsaved", "input", "input_not_saved"],
];

/** Tags the codec has, tags of the built-ins it has not, and names that are no tags. */
export const TAGS: readonly string[] = [
  ...["undefined", "number", "bigint", "object", "null-prototype", "Array", "chunk", "serde", "sealed"],
  ...["Date", "RegExp", "URL", "Map", "Set", "Error", "AggregateError", "TypeError", "Buffer", "ArrayBuffer", "DataView"],
  ...[
    "Uint8Array",
    "Float64Array",
    "BigInt64Array",
    "AIMessage",
    "AIMessageChunk",
    "ToolMessage",
    "RemoveMessage",
    "ChatMessage",
  ],
  ...["HumanMessageChunk", "Document", "Send", "Command", "Overwrite", "DeltaSnapshot"],
  ...[
    "Function",
    "Promise",
    "Proxy",
    "WeakMap",
    "eval",
    "process",
    "require",
    "child_process",
    "Object",
    "Symbol",
    "SharedArrayBuffer",
  ],
  ...["__proto__", "constructor", "toString", "", "OpenAI", "ChatOpenAI", "PromptTemplate"],
];

const CALLS = "globalThis.__pwned = true";
/** Forms in which savers, LangChain or other libraries have once called what a payload named. */
const GADGETS: readonly unknown[] = [
  { lc: 1, type: "constructor", id: ["langchain_core", "messages", "AIMessage"], kwargs: { content: "x", lc_kwargs: { a: 1 } } },
  { lc: 1, type: "constructor", id: ["langchain", "llms", "openai", "OpenAI"], kwargs: { openAIApiKey: "x" } },
  { lc: 1, type: "constructor", id: ["langchain_core", "prompts", "PromptTemplate"], kwargs: { template: `{{${CALLS}}}` } },
  { lc: 1, type: "secret", id: ["HOME"] },
  { lc: 1, type: "not_implemented", id: ["process", "exit"] },
  { lc: 2, type: "constructor", id: ["Function"], args: [CALLS] },
  { lc: 2, type: "constructor", id: ["Set"], method: "constructor", args: [CALLS] },
  { lc: 2, type: "constructor", id: ["Uint8Array"], method: "from", args: [{ length: 1e9 }] },
  { lc: 2, type: "constructor", id: ["__proto__"], method: "__proto__", args: [] },
  { lc: 2, type: "undefined" },
  { _$$ND_FUNC$$_: `function(){${CALLS}}()` },
  { type: "Buffer", data: [1, 2, 3] },
  { type: "Buffer", data: 1e9 },
  { hex: "zz" },
  { then: CALLS },
  { toString: CALLS, valueOf: CALLS, toJSON: CALLS },
  { $ne: null },
];

const NUMBERS: readonly unknown[] = [
  ...[0, -1, 1, 2, 3, 0.5, 255, 256, 1e9, 2 ** 31, 2 ** 32 - 1, 2 ** 32, 2 ** 53, -(2 ** 53), 1e308],
  ...["1e999", "-1e999", "-0", `1${"0".repeat(400)}`, `0.${"3".repeat(400)}`].map((text) => new Raw(text)),
];

const TEXTS: readonly string[] = [
  ...[
    "",
    "x",
    "\0",
    "\ud800",
    "\udc00\ud800",
    "\ufeff",
    "\u2028",
    "\u202e",
    "'",
    '"',
    "\\",
    "`",
    "%",
    "_",
    "*",
    "$.a",
    "a.b",
    "[0]",
  ],
  ...["'; DROP TABLE langgraph_snapshots; --", "' OR '1'='1", "../../etc/passwd", "file:///etc/passwd", "(a+)+$", "(".repeat(50)],
  ...[
    "NaN",
    "Infinity",
    "-0",
    "1e9",
    "0x10",
    "2026-11-21T00:00:00.000Z",
    "275760-09-13T00:00:00.001Z",
    "AAAA",
    "AA=A",
    "http://[::1",
  ],
  ...["A".repeat(43), CALLS, `<script>${CALLS}</script>`, "x".repeat(700)],
];

export function nastyValue(random: Random): unknown {
  switch (random.below(9)) {
    case 0:
      return random.of(NUMBERS);
    case 1:
      return random.of(TEXTS);
    case 2:
      return random.of([null, true, false, [], {}, [[]], [null], [{}], [0, 1], [["a", 1, 2]]]);
    case 3:
      return { "~": random.of(TAGS), v: random.once(2) ? random.of(TEXTS) : random.once(3) ? {} : [random.of(NUMBERS)] };
    case 4:
      return random.of(GADGETS);
    case 5:
      return { [random.of(KEYS)]: random.once(2) ? random.of(TEXTS) : random.of(GADGETS) };
    case 6:
      return new Raw(`{"__proto__":${random.of(['{"polluted":1}', "null", '[{"polluted":1}]'])},"polluted":0}`);
    case 7:
      return nested(random);
    default:
      return { "~": random.of(TAGS), ...(random.once(2) ? { v: {} } : { v: [] }), [random.of(KEYS)]: random.of(TEXTS) };
  }
}

/** As deep as the limit, seldom, and as deep as a stack, more seldom: such texts are long. */
function nested(random: Random): Raw {
  const limit = random.once(20) ? 100_000 : random.of([1_990, 2_010, 2_500]);
  const depth = random.once(15) ? limit : random.of([3, 10, 100]);
  const [open, close] = random.of([
    ["[", "]"],
    ['{"a":', "}"],
    ['{"~":"Set","v":[', "]}"],
    ['{"~":"object","v":{"~":', "}}"],
    ['{"lc":1,"type":"constructor","id":["langchain_core","messages","AIMessage"],"kwargs":{"content":', "}}"],
  ] as const);
  return new Raw(`${open.repeat(depth)}1${close.repeat(depth)}`);
}

export function nastyKey(random: Random): string {
  return random.of(KEYS);
}

export function nastyText(random: Random): string {
  return random.of(TEXTS);
}
