export { Serialized } from "./built-ins";
export { copyOf, NO_COPY } from "./copy";
export { chunkAddresses, chunkTag, decode } from "./decode";
export { encode, type EncodeOptions, encodePart, encodeParts } from "./encode";
export { innerKindOfPlain, isDense as isElementwise } from "./kind";
export { ADOPTING, EXACT, matches, PLAIN, PrivateCopy, remade, type Shape, shapesOf, Tracer } from "./trace";
