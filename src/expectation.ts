import type { z } from "zod";

/** The kinds that schemas name, as they stand in a sentence. */
const KINDS: Readonly<Record<string, string>> = {
  string: "a string",
  boolean: "true or false",
  number: "a number",
  int: "a whole number",
  object: "an object",
  record: "an object",
  array: "an array",
  date: "a valid date",
};

/** What follows "expected" in the message about an issue; zod's own texts are whole sentences, which would say "expected" twice. */
export function expectationOf(issue: z.core.$ZodIssue): string {
  switch (issue.code) {
    case "unrecognized_keys":
      return "only options that exist";
    case "invalid_type":
      return KINDS[issue.expected] ?? `an instance of ${issue.expected}`;
    case "invalid_value":
      return issue.values.map((value) => JSON.stringify(value)).join(" or ");
    case "too_small":
      return bounded(issue.origin, "at least", issue.minimum);
    case "too_big":
      return bounded(issue.origin, "at most", issue.maximum);
    default:
      // A schema's own text is either what is wanted or "must be" that.
      return issue.message.replace(/^must be /, "");
  }
}

function bounded(origin: string, limit: string, count: number | bigint): string {
  const kind = KINDS[origin] ?? "a number";
  return origin === "string"
    ? `${kind} of ${limit} ${count} ${count === 1 ? "character" : "characters"}`
    : `${kind} of ${limit} ${count}`;
}
