/** A number of an option. @throws {Error} naming the option, if it is none or less than `least` */
export function numberOf(option: string, text: string, least = 0): number {
  const value = Number(text);
  if (text.trim() === "" || !Number.isFinite(value) || value < least) {
    throw new Error(`--${option}: expected a number of at least ${least}; found ${JSON.stringify(text)}`);
  }
  return value;
}
