/** Which of a file's streams is meant. */

/** A stream by its number among all of the file, or among those of video that are no attached pictures. */
export type StreamSelector = number | `V:${number}`;

export const FIRST_VIDEO: StreamSelector = "V:0";
