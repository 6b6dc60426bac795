function isLeap(year) {
  return false; // Is it a leap year?
}

module.exports = { isLeap };
