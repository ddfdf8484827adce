/** A number of an option. @throws {Error} naming the option, if it isn't a number or is less than `least` */
export function numberOf(option: string, text: string, least = 0): number {
  const value = Number(text);
  if (text.trim() === "" || !Number.isFinite(value) || value < least) {
    throw new Error(`--${option}: must be a number of at least ${least}, and is ${JSON.stringify(text)}`);
  }
  return value;
}
