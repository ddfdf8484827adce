export { chunkAddresses, chunkTag } from "./chunks";
export { NO_COPY } from "./copier";
export { copyOf, sameAs } from "./copy";
export { decode, type Resolve } from "./decode";
export { encode, type EncodeOptions } from "./encode";
export { isDense as isElementwise } from "./lists";
export { decodeOfficial } from "./official";
export { encodePart, encodeParts, type EncodedParts } from "./parts";
export { matches, type Trace, Tracer } from "./trace";
