import { prototypeName, wordsFor, wrongWith } from "./judge";
import { Finding } from "./target";

/** Runs the product on an input, and holds it to what it may do. @throws {Finding} */
export function answer(work: () => unknown, wrong: (value: unknown) => string | undefined = () => undefined): string {
  let words: string;
  let found: string | undefined;
  try {
    const value = work();
    found = wrong(value);
    words = `a value: ${kindOf(value)}`;
  } catch (error) {
    found = error instanceof Finding ? error.message : wrongWith(error);
    words = wordsFor(error);
  }
  if (found !== undefined) throw new Finding(found);
  return words;
}

/** Without asking the value: it may have a `constructor` of its own, which its class then takes for itself. */
function kindOf(value: unknown): string {
  if (typeof value !== "object" || value === null) return typeof value;
  return prototypeName(Object.getPrototypeOf(value));
}

/** {@link answer}, for what takes its time. @throws {Finding} */
export async function answerLater(work: () => Promise<unknown>, wrong?: (value: unknown) => string | undefined): Promise<string> {
  const outcome = await work().then(
    (value) => () => value,
    (error: unknown) => () => {
      throw error;
    },
  );
  return answer(outcome, wrong);
}
