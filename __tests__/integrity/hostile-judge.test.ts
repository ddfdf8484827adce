import { decode, parseProgress, TurnsError } from "../../src/testing-internal";
import { Random } from "../../torture/fuzz/random";
import { type Tried, tried } from "../../torture/fuzz/run";
import { open as openCheckpointFile } from "../../torture/fuzz/targets/checkpoint-file";
import { open as openDecoder } from "../../torture/fuzz/targets/decoder";

type Decode = typeof decode;
type Json = Record<string, any>;

let read: Decode = decode;
const session = openDecoder(new Random(7), (text, resolve) => read(text, resolve));

const ROUNDS = 20;

/** The judge looks at what the fuzzed code does; here it looks at decoders that are wrong on purpose, until it has the words. */
const told = async (wrong: Decode, words: RegExp, rounds = ROUNDS): Promise<string> => {
  read = wrong;
  const random = new Random(8);
  let all = "";
  for (let round = 0; round < rounds && !words.test(all); round += 1) {
    all += `${wordsOf(await tried(session, random, { inputs: 300, memoryMb: 100 }))}\n`;
  }
  return all.trim();
};
const wordsOf = ({ found }: Tried): string => found.map(({ what }) => what).join("\n");

/** Every object of a text, as whoever revives JSON sees them. */
const revived = (text: string, look: (record: Json) => unknown): unknown =>
  JSON.parse(text, (_key, value: unknown) => (typeof value === "object" && value !== null ? look(value) : value));

afterEach(() => {
  delete (Object.prototype as Json)["polluted"];
  delete (globalThis as Json)["__pwned"];
});

describe("hostile input: the judge of the fuzzing", () => {
  test("hostile input: the right decoder and the right parser pass", async () => {
    expect(await told(decode, /./, 1)).toBe("");
    expect(await parserTold(parseProgress)).toBe("");
  });

  const WRONG: [string, RegExp, Decode][] = [
    ["throws what it likes", /outside the family: TypeError/, (text) => (decode(text) as Json)["note"].length as unknown],
    [
      "lets the parser's error through",
      /outside the family: SyntaxError/,
      (text, resolve) => (JSON.parse(text), decode(text, resolve)),
    ],
    [
      "alters a value without tags",
      /JSON that is read as something else/,
      (text, resolve) => {
        const value = decode(text, resolve);
        return Array.isArray(value) ? [...value.slice(1)] : value;
      },
    ],
    [
      "alters a tagged value",
      /written and read as another one/,
      (text, resolve) => {
        const value = decode(text, resolve) as Json | null;
        const inner: unknown = value?.["value"];
        return inner instanceof Date ? { ...value, value: new Date(inner.getTime() + 1) } : value;
      },
    ],
    [
      "merges what it reads into prototypes",
      /the prototype of Object was changed/,
      (text, resolve) => {
        const value = decode(text, resolve);
        revived(text, (record) => {
          const proto = Object.getOwnPropertyDescriptor(record, "__proto__")?.value as unknown;
          if (typeof proto === "object" && proto !== null) Object.assign(Object.prototype, { polluted: 1 });
          return record;
        });
        return value;
      },
    ],
    [
      "builds a class that a text names",
      /a class that nobody allowed: Secret/,
      (text, resolve) => {
        class Secret {}
        const value = decode(text, resolve);
        let found = false;
        revived(text, (record) => ((found ||= record["lc"] === 1), record));
        return found ? new Secret() : value;
      },
    ],
    [
      "runs what a text names",
      /code that a payload named was run/,
      (text, resolve) => {
        const value = decode(text, resolve);
        revived(text, (record) => {
          // eslint-disable-next-line @typescript-eslint/no-implied-eval -- the gadget, as others once had it
          if (record["lc"] === 2 && record["id"]?.[0] === "Function") new Function(String(record["args"]?.[0]))();
          return record;
        });
        return value;
      },
    ],
    [
      "hands out functions",
      /a function in a decoded value/,
      (text, resolve) => {
        const value = decode(text, resolve);
        return Array.isArray(value) ? [...(value as unknown[]), () => 1] : value;
      },
    ],
    [
      "quotes what it refuses",
      /tells what a value holds/,
      (text, resolve) => {
        try {
          return decode(text, resolve);
        } catch {
          throw new TurnsError("UNDECODABLE_VALUE", { problem: `a value is ${text}`, remedy: "None." });
        }
      },
    ],
  ];
  test.each(WRONG)("hostile input: a decoder that %s is found out", async (_title, words, wrong) => {
    expect(await told(wrong, words)).toMatch(words);
  });

  test("hostile input: a decoder that allocates as much as a text asks for is found out", async () => {
    const greedy: Decode = (text, resolve) => {
      if (text.includes('"~":"Array","n":12')) Buffer.allocUnsafe(200 * 2 ** 20);
      return decode(text, resolve);
    };
    expect(await told(greedy, /^\d+ MB for \d+ bytes$/m)).toMatch(/^\d+ MB for \d+ bytes$/m);
  });

  test("hostile input: a decoder that recurses without a limit is found out", async () => {
    const depth = (node: unknown): number => (node instanceof Object ? 1 + depth(Object.values(node)[0]) : 0);
    const deep = Buffer.from(`${"[".repeat(100_000)}1${"]".repeat(100_000)}`);
    read = decode;
    expect(session.feed(deep)).toMatch(/^UNDECODABLE_VALUE /);
    read = (text) => depth(JSON.parse(text));
    expect(() => session.feed(deep)).toThrow(/outside the family: RangeError/);
  });

  test("hostile input: a parser that alters a phase's notes is found out", async () => {
    const wrong: typeof parseProgress = (text) => {
      const progress = parseProgress(text);
      return { ...progress, phases: progress.phases.map((phase) => ({ ...phase, notes: `${phase.notes}.` })) };
    };
    expect(await parserTold(wrong)).toContain("a progress that its file does not restore");
  });
});

async function parserTold(parse: typeof parseProgress): Promise<string> {
  return wordsOf(await tried(openCheckpointFile(new Random(7), parse), new Random(8), { inputs: 40 }));
}
