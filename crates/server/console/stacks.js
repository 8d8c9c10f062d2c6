/** Stub. */
export const stackView = () => null;
