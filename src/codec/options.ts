/** How to treat what the codec has no exact form for. */
export interface EncodeOptions {
  /**
   * Instances of classes the codec does not know. `"error"` (the default) refuses them. `"plain"` saves them without their class:
   * what their `toJSON()` returns; else, if they extend a class the codec knows, as that class; else their own enumerable
   * properties.
   */
  classInstances?: "error" | "plain";
  /** An object in the value whose text is known, with that text. */
  written?: { readonly value: object; readonly text: string };
}
