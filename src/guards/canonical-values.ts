import type { Syntax } from "./parse-javascript";

/** A part of a program in its canonical form: a word or a list of parts, as JSON. */
export type Canonical = string | number | boolean | null | Canonical[];

/** `undefined`, in any spelling. */
export const NOTHING: Canonical = ["undefined"];

export function literal({ value, regex }: Syntax & { regex?: { pattern: string; flags: string } }): Canonical {
  if (regex !== undefined) return ["regex", regex.pattern, regex.flags];
  if (typeof value === "string") return ["string", value];
  if (typeof value === "number") return number(value);
  if (typeof value === "bigint") return ["bigint", String(value)];
  return value as boolean | null;
}

export function number(value: number): Canonical {
  return ["number", Object.is(value, -0) ? "-0" : String(value)];
}

export const FOLDED: Readonly<Record<string, ((left: number, right: number) => number) | undefined>> = {
  "-": (left, right) => left - right,
  "*": (left, right) => left * right,
  "/": (left, right) => left / right,
  "%": (left, right) => left % right,
  "|": (left, right) => left | right,
  "<<": (left, right) => left << right,
};

export function sum(left: Canonical, right: Canonical): Canonical {
  if (isOf(left, "number") && isOf(right, "number")) return number(Number(left[1]) + Number(right[1]));
  if (isOf(left, "string") && isOf(right, "string")) return ["string", String(left[1]) + String(right[1])];
  // A sum that ends with a string was a string before.
  if (isOf(left, "+") && isOf(left[2], "string") && isOf(right, "string"))
    return ["+", left[1] as Canonical, sum(left[2], right)];
  return ["+", left, right];
}

/** Literals to the right. */
export function equal(operator: string, left: Canonical, right: Canonical): Canonical {
  return isConstant(left) && !isConstant(right) ? [operator, right, left] : [operator, left, right];
}

export function isConstant(value: Canonical): boolean {
  return !Array.isArray(value) || ["string", "number", "bigint", "undefined"].includes(value[0] as string);
}

export function logical(operator: string, operands: Canonical[]): Canonical {
  const flat = operands.flatMap((operand) => (isOf(operand, operator) ? (operand[1] as Canonical[]) : [operand]));
  if (operator === "??" || !flat.every((operand) => isOf(operand, "!"))) return [operator, flat];
  // `!a || !b` is `!(a && b)`.
  return ["!", [operator === "&&" ? "||" : "&&", flat.map((operand) => operand[1] as Canonical)]];
}

export function not(value: Canonical): Canonical {
  if (typeof value === "boolean") return !value;
  if (isOf(value, "number")) return Number(value[1]) === 0 || value[1] === "NaN";
  return isOf(value, "!") && isBoolean(value[1] as Canonical) ? (value[1] as Canonical) : ["!", value];
}

const COMPARISONS = new Set(["!", "===", "==", "<", ">", "<=", ">=", "in", "instanceof"]);

function isBoolean(value: Canonical): boolean {
  if (typeof value === "boolean") return true;
  if (!Array.isArray(value)) return false;
  if (value[0] === "&&" || value[0] === "||") return (value[1] as Canonical[]).every(isBoolean);
  return COMPARISONS.has(value[0] as string);
}

export function conditional(test: Canonical, then: Canonical, otherwise: Canonical): Canonical {
  if (isOf(test, "!")) return conditional(test[1] as Canonical, otherwise, then);
  if (then === true && otherwise === false) return isBoolean(test) ? test : ["!", ["!", test]];
  if (then === false && otherwise === true) return not(test);
  return ["?", test, then, otherwise];
}

export function isOf(value: Canonical | undefined, kind: string): value is Canonical[] {
  return Array.isArray(value) && value[0] === kind;
}

/** An `if` with its test not negated, taken apart if only one branch does something. */
export function ifTrees(test: Canonical, then: Canonical[], otherwise: Canonical[]): Canonical[] {
  if (isOf(test, "!")) return ifTrees(test[1] as Canonical, otherwise, then);
  if (isOf(test, "&&") && otherwise.length === 0)
    return (test[1] as Canonical[]).reduceRight<Canonical[]>((inner, operand) => ifTrees(operand, inner, []), then);
  if (isOf(test, "||") && then.length === 0)
    return (test[1] as Canonical[]).reduceRight<Canonical[]>((inner, operand) => ifTrees(operand, [], inner), otherwise);
  return then.length === 0 && otherwise.length === 0 ? [["do", test]] : [["if", test, then, otherwise]];
}

/** The same program with free names numbered, as a minifier renames them. It no longer shows what they name. */
export function withoutNames(program: Canonical): Canonical {
  const known = new Map<string, number>();
  const numbered = (name: string): Canonical => {
    const number = known.get(name) ?? known.size;
    known.set(name, number);
    return ["free", number];
  };
  const walk = (part: Canonical): Canonical => {
    if (!Array.isArray(part)) return part;
    const [kind, name, key] = part;
    if (kind === "free" && part.length === 2) return numbered(String(name));
    // Compilers differ in what they call a CommonJS module: `services_1.log`.
    const isImported = kind === "." && isOf(name, "free") && isOf(key, "string") && /^(?:import)?_|_\d+$/.test(String(name[1]));
    return isImported ? numbered(`${String(name[1])}.${String(key[1])}`) : part.map(walk);
  };
  return walk(program);
}
