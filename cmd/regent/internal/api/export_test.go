package api

// Document is document, for the tests of answers.
var Document = document
