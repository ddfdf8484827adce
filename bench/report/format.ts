import type { Quartiles, Unit } from "../measure/samples";

/** Three digits that count. */
export function digits(value: number): string {
  if (value >= 100) return Math.round(value).toLocaleString("en");
  return value >= 10 ? value.toFixed(1) : value.toFixed(value >= 0.1 ? 2 : 3);
}

export function bytesText(bytes: number): string {
  if (bytes >= 1e6) return `${digits(bytes / 1e6)} MB`;
  return bytes >= 1e3 ? `${digits(bytes / 1e3)} KB` : `${Math.round(bytes)} B`;
}

/** What is counted is shown without digits behind the point, a mean of counts with two. */
export function countText(count: number): string {
  return Number.isInteger(count) ? count.toLocaleString("en") : count.toFixed(2);
}

export function valueText(value: number, unit: Unit): string {
  if (unit === "count") return countText(value);
  return unit === "ms" ? digits(value) : bytesText(value);
}

/** Median and, where there is more than one sample, quartiles. */
export function quartilesText({ low, median, high }: Quartiles, unit: Unit): string {
  const shown = valueText(median, unit);
  return low === high ? shown : `${shown} (${valueText(low, unit)}–${valueText(high, unit)})`;
}

export function ratioText(ratio: number | undefined): string {
  return ratio === undefined || !Number.isFinite(ratio) ? "–" : `${digits(ratio)}×`;
}
