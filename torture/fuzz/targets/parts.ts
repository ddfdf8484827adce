import fc from "fast-check";
import { channelValue } from "../../../__tests__/support/arb-values";
import { type PackedValue, sha256, type StoredValue, Values } from "../../../src/testing-internal";
import { answer } from "../answer";
import { CANARY, wrongInValue } from "../judge";
import { mutated } from "../mutate";
import type { Random } from "../random";
import { Finding, type Session } from "../target";
import { KNOWN } from "./decoder";

const options = { classInstances: "error", immutable: false, cacheSize: 1_000_000 } as const;
const valuesOf = (): Values => new Values(options, { address: (_threadId, text) => sha256(text), awaitsKeys: () => false });

/** What the store would give for a value: its form, and the parts its texts refer to, by names instead of addresses. */
interface Form {
  kind: "text" | "list";
  text: string;
  elements: string[];
  parts: Record<string, string>;
  /** Whether the list's digest and the parts' addresses are computed again, as an attacker who can write the file would do. */
  signed: boolean;
}

/** Values in parts: lists with digests, texts that refer to chunks, chunks that refer to chunks, also in circles and to nowhere. */
export function open(random: Random): Session {
  const values = fc.sample(channelValue, { numRuns: 60, seed: random.below(2 ** 31) });
  const packed = (value: unknown) => valuesOf().channels({ threadId: "t", ns: "" }, { c: value }).packed.get("c")!;
  const seeds = values.map((value) => formOf(packed({ note: CANARY, value: [value, value] })));
  const lists = values.filter(Array.isArray).map((value) => formOf(packed(value)));
  return {
    seeds: [...seeds, ...lists].map((form) => Buffer.from(JSON.stringify(form))),
    mutate: (input, other, by) => Buffer.from(changed(input.toString(), other.toString(), by)),
    feed: (input) => {
      const form = parsedForm(input.toString());
      if (form === undefined) return "no form";
      const { stored, chunks } = storedOf(form);
      const parts = { generation: "", chunks, values: new Map([["c", stored]]) };
      const memory = valuesOf();
      const read = (): unknown => memory.values({ threadId: "t", ns: "" }, parts, true)["c"];
      const words = answer(read, (value) => wrongInValue(value, KNOWN));
      // What is remembered now is handed out as if it were new.
      const again = answer(read);
      if (words !== again) throw new Finding(`another answer the second time: ${words}, then ${again}`);
      return words;
    },
    close: () => undefined,
  };
}

function formOf(packed: PackedValue): Form {
  const parts: Record<string, string> = {};
  if (packed.kind === "inline") return { kind: "text", text: packed.text, elements: [], parts, signed: true };
  if (packed.kind === "list") {
    const elements = Array.from({ length: packed.length }, (_, index) => packed.chunk(index).text);
    return { kind: "list", text: "", elements, parts, signed: true };
  }
  for (const { address, text } of packed.parts) parts[address] = text;
  return { kind: "text", text: packed.chunk.text, elements: [], parts, signed: true };
}

/** Texts within the form are trees of their own. */
function changed(input: string, other: string, random: Random): string {
  const [form, donor] = [parsedForm(input), parsedForm(other)];
  if (form === undefined || donor === undefined || random.once(10)) return mutated(input, other, random);
  const names = Object.keys(form.parts);
  const name = random.of(names.length === 0 ? ["A".repeat(43)] : names);
  const reference = `{"~":"chunk","v":"${name}"}`;
  const index = random.below(form.elements.length + 1);
  switch (random.below(6)) {
    case 0:
      form.text = mutated(form.text, donor.text, random);
      break;
    case 1:
      form.parts[name] = mutated(form.parts[name] ?? "{}", donor.text, random);
      break;
    case 2:
      // Chunks that refer to chunks, more of them at each level.
      form.parts[name] = `[${Array(1 + random.below(4))
        .fill(`{"~":"chunk","v":"${random.of([name, ...names])}"}`)
        .join()}]`;
      break;
    case 3:
      form.elements.splice(
        index,
        random.below(2),
        random.once(3) ? reference : mutated(form.elements[index] ?? "1", donor.text, random),
      );
      break;
    case 4:
      form.text = random.once(2) ? reference : `[${reference},${form.text}]`;
      break;
    default:
      form.signed = !form.signed;
  }
  return JSON.stringify(form);
}

function parsedForm(text: string): Form | undefined {
  try {
    const form = JSON.parse(text) as Form;
    const isForm =
      typeof form.text === "string" && Array.isArray(form.elements) && form.elements.every((part) => typeof part === "string");
    return isForm && Object.values(form.parts).every((part) => typeof part === "string") ? form : undefined;
  } catch {
    return undefined;
  }
}

function storedOf(form: Form): { stored: StoredValue; chunks: Map<string, string> } {
  const chunks = new Map(Object.entries(form.parts));
  if (form.kind !== "list") return { stored: { kind: "text", address: undefined, text: form.text }, chunks };
  const { elements } = form;
  // The second hash is the address of the first, in base64url.
  const digest = form.signed ? sha256(sha256(elements.map((text) => `${text},`).join(""))) : "other";
  const joined = elements.join(",");
  const stretches = elements.length === 0 ? [] : [joined];
  const segments = [{ list: 1, from: 0 }];
  return { stored: { kind: "list", list: 1, length: elements.length, digest, from: 0, segments, stretches }, chunks };
}
