/** What the agent really does with the texts: plain code, so that its results can be checked. */

export interface TextFile {
  name: string;
  text: string;
}

export interface Fact {
  topic: string;
  value: string;
  source: string;
}

/** What the sources say about one topic; more than one value is a contradiction. */
export interface Finding {
  topic: string;
  values: { value: string; sources: string[] }[];
}

const PATTERNS: Readonly<Record<string, RegExp>> = {
  "year of completion": /completed in (\d{4})/g,
  "height in metres": /(\d+) metres high/g,
  "number of steps": /(\d+) steps/g,
  "range in nautical miles": /(\d+) nautical miles/g,
  "number of keepers": /(\d+) keepers/g,
  "year of electrification": /electrified in (\d{4})/g,
};

export const TOPICS = Object.keys(PATTERNS);

export function extractFacts(file: TextFile): Fact[] {
  const text = file.text.replaceAll(/\s+/g, " ");
  return TOPICS.flatMap((topic) =>
    [...text.matchAll(PATTERNS[topic]!)].map((match) => ({ topic, value: match[1]!, source: file.name })),
  );
}

export function crossCheck(topic: string, facts: readonly Fact[]): Finding {
  const sources = new Map<string, string[]>();
  for (const fact of facts.filter((candidate) => candidate.topic === topic)) {
    sources.set(fact.value, [...(sources.get(fact.value) ?? []), fact.source]);
  }
  return { topic, values: [...sources].map(([value, names]) => ({ value, sources: names })) };
}

export function contradicts(finding: Finding): boolean {
  return finding.values.length > 1;
}

/** One line of the report: what is agreed, or who says what. */
export function reportLine(finding: Finding): string {
  if (!contradicts(finding)) return `- ${finding.topic}: ${finding.values[0]?.value ?? "nothing found"}`;
  const voices = finding.values.map(({ value, sources }) => `${value} (${sources.join(", ")})`);
  return `- ${finding.topic}: CONTRADICTION, ${voices.join(" against ")}`;
}
