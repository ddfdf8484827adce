export interface Quartiles {
  low: number;
  median: number;
  high: number;
}

export function quantile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((left, right) => left - right);
  const place = (sorted.length - 1) * share;
  const below = sorted[Math.floor(place)] ?? NaN;
  return below + ((sorted[Math.ceil(place)] ?? NaN) - below) * (place - Math.floor(place));
}

export type Unit = "ms" | "bytes" | "count";

/** What was measured in one scenario: for each thing measured and each contender, all samples. */
export class Samples {
  readonly #units = new Map<string, Unit>();
  readonly #values = new Map<string, Map<string, number[]>>();

  add(measured: string, contenderId: string, value: number, unit: Unit = "ms"): void {
    this.#units.set(measured, unit);
    const byContender = this.#values.get(measured) ?? new Map<string, number[]>();
    this.#values.set(measured, byContender);
    byContender.set(contenderId, [...(byContender.get(contenderId) ?? []), value]);
  }

  get measured(): string[] {
    return [...this.#values.keys()];
  }

  unit(measured: string): Unit {
    return this.#units.get(measured) ?? "ms";
  }

  of(measured: string, contenderId: string): readonly number[] {
    return this.#values.get(measured)?.get(contenderId) ?? [];
  }

  quartiles(measured: string, contenderId: string): Quartiles | undefined {
    const values = this.of(measured, contenderId);
    if (values.length === 0) return undefined;
    return { low: quantile(values, 0.25), median: quantile(values, 0.5), high: quantile(values, 0.75) };
  }

  median(measured: string, contenderId: string): number | undefined {
    return this.quartiles(measured, contenderId)?.median;
  }

  /** How many times the one is the other, by their medians. */
  ratio(measured: string, of: string, to: string): number | undefined {
    const [above, below] = [this.median(measured, of), this.median(measured, to)];
    return above === undefined || below === undefined ? undefined : above / below;
  }
}
