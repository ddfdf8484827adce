/**
 * True for a list without holes and without properties besides its elements. Integer keys come first and in order, so the last key
 * alone tells.
 */
export function isDense(value: readonly unknown[], keys: readonly string[] = Object.keys(value)): boolean {
  return keys.length === value.length && (keys.length === 0 || keys[keys.length - 1] === String(value.length - 1));
}

/** True for the keys under which lists keep elements. */
export function isIndex(key: string): boolean {
  const index = Number(key);
  return Number.isInteger(index) && index >= 0 && index < 2 ** 32 - 1 && String(index) === key;
}

/**
 * A copy of a list that holds nothing but numbers JSON can write; undefined for any other list. Vectors are long, and the native
 * stringifier writes them several times faster.
 */
export function finiteNumbers(value: readonly unknown[]): number[] | undefined {
  const numbers: number[] = [];
  for (let i = 0; i < value.length; i++) {
    const item = value[i];
    if (typeof item !== "number" || !Number.isFinite(item) || Object.is(item, -0)) return undefined;
    numbers.push(item);
  }
  return numbers;
}
