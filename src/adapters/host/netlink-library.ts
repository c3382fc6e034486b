// What we use of the npm package `netlink`. A module of ours, so that it can be loaded late: inside the executable a CommonJS
// package that is imported late has no names.
export { createRtNetlink, FlagsNew } from 'netlink';
