/* eslint-disable -- node functions as people write them, in all kinds of styles; the builds of this file are compared */
import { db, fetchPage, log, model, Money, sendMail } from "./services";

interface State {
  topic: string;
  items: string[];
  count?: number;
  user?: { name: string; address?: { city?: string | null } };
  meta: Record<string, unknown>;
}

const LIMIT = 1_000;

export async function research(state: State) {
  const page = await fetchPage(`https://example.com/${state.topic}?q=${encodeURIComponent(state.items.join(","))}`);
  return { items: [...state.items, page] };
}

export const arrow = async (state: State): Promise<Partial<State>> => {
  const answer = await model.invoke([{ role: "user", content: state.topic }]);
  return { topic: answer.content };
};

export const concise = ({ topic }: State) => ({ topic: topic.trim().toLowerCase() });

export const route = (state: State) => (state.items.length > 3 ? "summarise" : "research");

export function branches(state: State) {
  if (state.items.length === 0) {
    return { topic: "nothing" };
  } else if (state.items.length < 5) {
    return { topic: "few" };
  }
  return { topic: "many" };
}

export function guarded(state: State) {
  if (!state.topic) return {};
  if (state.items.includes(state.topic)) {
    log("seen", state.topic);
  } else {
    log("new", state.topic);
  }
  return { count: (state.count ?? 0) + 1 };
}

export const optional = (state: State) => {
  const city = state.user?.address?.city ?? "unknown";
  const first = state.items?.[0]?.toUpperCase();
  return { meta: { city, first, name: state.user?.name } };
};

export const defaults = ({
  topic = "none",
  items: [head, ...tail] = [],
  meta: { limit = 10, ...rest } = {},
  count = 1,
}: Partial<State>) => {
  return { topic: `${topic}:${head}`, items: tail, meta: { ...rest, limit, count } };
};

export async function* generator(state: State) {
  for (const item of state.items) {
    yield item;
  }
  yield* state.items.map((item) => item.length);
}

export async function forAwait(state: State) {
  const out: string[] = [];
  for await (const part of generator(state)) {
    out.push(String(part));
  }
  return { items: out };
}

export const retrying = async (state: State) => {
  let last: unknown;
  for (let attempt = 0; attempt < 3; attempt++) {
    try {
      return { topic: await fetchPage(state.topic) };
    } catch (error) {
      last = error;
      await new Promise((resolve) => setTimeout(resolve, 100 * 2 ** attempt));
    }
  }
  throw last;
};

export async function cleanUp(state: State) {
  const started = Date.now();
  try {
    await sendMail({ to: "a@example.com", text: state.topic });
  } catch {
    return { meta: { failed: true } };
  } finally {
    log("took", Date.now() - started);
  }
  return { meta: { failed: false } };
}

export function labels(state: State) {
  let found = "";
  outer: for (const left of state.items) {
    for (const right of state.items) {
      if (left === right) continue outer;
      if (left.startsWith(right)) {
        found = left;
        break outer;
      }
    }
  }
  return { topic: found };
}

export const numbers = () => {
  const values = [1_000_000, 0xff, 0b101, 0o17, 1e3, 0.5, 10n ** 3n, -1, 1000, 1e21];
  return { meta: { values, share: LIMIT / 4, nan: NaN, infinite: Infinity } };
};

export const strings = (state: State) => {
  const quoted = 'it\'s "quoted"';
  const escapes = "tab\t newline\n unicode \u00e9 \x41 \u{1F600} é";
  const long = "one " + "two " + "three";
  return {
    items: [
      quoted,
      escapes,
      long,
      `line one
line two ${state.topic} \`tick\``,
    ],
  };
};

export const regexes = (state: State) => {
  const words = state.topic.match(/\b[a-z][\w/]*\b/gi) ?? [];
  const clean = state.topic.replace(/["'`]/g, "").split(/\s*,\s*/u);
  return { items: [...words, ...clean], count: state.items.length / 2 / 3 };
};

export function commented(state: State) {
  // What comes next is important.
  const items = state.items; /* all of them */
  /**
   * Counts.
   */
  return { count: items.length /* not bytes */ };
}

export const satisfies = (state: State) => {
  const config = { temperature: 0, tags: ["a"] } satisfies Record<string, unknown>;
  const name = (state.user as { name: string })!.name;
  const items = <string[]>state.items;
  return { meta: { ...config, name }, items } as Partial<State>;
};

export function enums(state: State) {
  enum Level {
    Low,
    High = 5,
  }
  return { count: state.items.length > 2 ? Level.High : Level.Low };
}

export const privateFields = (state: State) => {
  class Counter {
    #count = 0;
    static readonly kind = "counter";
    get value() {
      return this.#count;
    }
    add(by = 1): this {
      this.#count += by;
      return this;
    }
    has(other: object) {
      return #count in other;
    }
  }
  const counter = new Counter();
  state.items.forEach(() => counter.add());
  return { count: counter.value, meta: { kind: Counter.kind } };
};

export const parameterProperties = (state: State) => {
  class Account {
    constructor(
      private readonly owner: string,
      public balance = 0,
    ) {}
    toString() {
      return `${this.owner}: ${this.balance}`;
    }
  }
  return { topic: String(new Account(state.topic)) };
};

export const inherited = (state: State) => {
  class Failure extends Error {
    override name = "Failure";
    constructor(
      message: string,
      readonly code: number,
    ) {
      super(message);
    }
  }
  if (state.count === undefined) throw new Failure("no count", 404);
  return {};
};

export const switching = (state: State) => {
  switch (state.topic) {
    case "a":
    case "b":
      return { count: 1 };
    case "c": {
      const count = 2;
      return { count };
    }
    default:
      return { count: 0 };
  }
};

export const helpers = async (state: State) => {
  const clip = (text: string, length = 80) => (text.length > length ? `${text.slice(0, length - 1)}…` : text);
  function score(text: string): number {
    return text.split(" ").length;
  }
  const sorted = state.items.map((item) => clip(item)).sort((left, right) => score(right) - score(left));
  return { items: sorted };
};

export const parallel = async (state: State) => {
  const [pages, rows] = await Promise.all([
    Promise.all(state.items.map(async (item) => fetchPage(item, { signal: AbortSignal.timeout(5_000) }))),
    db.all<{ id: number }>("SELECT id FROM pages WHERE topic = ?", state.topic),
  ]);
  return { items: pages.filter(Boolean), count: rows.length };
};

export const toolCalls = async (state: State) => {
  const { tool_calls: calls = [], content } = await model.invoke(state.items);
  if (calls.length > 0 && calls.some(({ name }) => name !== "end")) return { meta: { next: "tools" } };
  return { topic: content, meta: { next: undefined, done: true } };
};

export const counting = (state: State) => {
  const byLength = new Map<number, string[]>();
  for (const item of state.items) {
    const known = byLength.get(item.length);
    if (known) known.push(item);
    else byLength.set(item.length, [item]);
  }
  let total = 0;
  for (let i = 0, n = state.items.length; i < n; i++) total += i;
  while (total > 100) total -= 100;
  do total++;
  while (total % 7);
  return { count: total, meta: Object.fromEntries(byLength) };
};

export const logical = (state: State) => {
  let label = state.topic;
  label ||= "none";
  state.count ??= 0;
  const both = state.items.length > 0 && !(state.count === 3) && typeof state.user !== "undefined";
  const isNone = state.user === null || state.user === undefined;
  return { topic: label, meta: { both: !!both, isNone, void: void 0, yes: true, no: false } };
};

export const objects = (state: State) => {
  const key = "dynamic";
  return {
    meta: {
      [key]: 1,
      "quoted-key": 2,
      plain: 3,
      method() {
        return this;
      },
      get computed() {
        return state.topic["length"];
      },
      async run() {
        await fetchPage("x");
      },
      fn: function () {
        return 1;
      },
    },
  };
};

export const shadowing = (state: State) => {
  const log = (items: string[]) => items.length;
  const inner = (items: string[]) => {
    const state = items.map((item) => ({ item }));
    return state.length + log(items);
  };
  return { count: inner(state.items) };
};

export const money = (state: State) => {
  const price = new Money(Math.round((state.count ?? 0) * 1.19 * 100));
  const vat = price.cents - price.cents / 1.19;
  return { meta: { price, vat, positive: price.cents > 0 ? true : false } };
};

export const sequences = (state: State) => {
  const first = state.items.shift();
  log("first", first);
  log("rest", state.items);
  let next;
  if (first) next = first;
  else next = "none";
  return { topic: next };
};

export const early = async (state: State) => {
  for (const item of state.items) {
    if (item === "") continue;
    if (item.length > LIMIT) {
      await sendMail({ to: "ops@example.com", text: "too long: " + item });
      break;
    }
    log(item);
  }
};

export const tagged = (state: State) => {
  const sql = (texts: TemplateStringsArray, ...values: unknown[]) => ({ text: texts.raw.join("?"), values });
  return { meta: { query: sql`SELECT * FROM t WHERE topic = ${state.topic} AND path LIKE 'a\n%'` } };
};

export const nodes = {
  async method(state: State) {
    return { topic: state.topic };
  },
  property: async function (state: State) {
    return { topic: state.topic };
  },
};

export class Agent {
  async respond(state: State) {
    const answer = await model.invoke(state.items);
    return { topic: answer.content };
  }
}
