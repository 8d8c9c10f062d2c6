/** Chinese words. What is missing here stands in English. Names of tools, agents, sub-tasks and fields are never translated. */
export const chinese = {};
