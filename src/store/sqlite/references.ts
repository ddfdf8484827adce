import { chunkAddresses, chunkTag } from "../../codec";

const REFERENCE = /\{"~":"chunk","v":"([\w-]{43})"\}/g;

/**
 * The text with every reference leading elsewhere. Data can look like a reference and is none, and only the codec can tell: each
 * candidate is given a number for an address, and what the codec then finds are the references.
 *
 * @param translate from the old address to the new one
 * @throws {TurnsError} UNDECODABLE_VALUE
 */
export function withReferences(text: string, translate: (address: string) => string): string {
  let count = 0;
  const numbered = text.replace(REFERENCE, () => chunkTag(numberAddress(count++)));
  if (count === 0) return text;
  const found = new Set(chunkAddresses(numbered));
  let index = 0;
  return text.replace(REFERENCE, (candidate, address: string) =>
    found.has(numberAddress(index++)) ? chunkTag(translate(address)) : candidate,
  );
}

function numberAddress(index: number): string {
  return String(index).padStart(43, "0");
}
