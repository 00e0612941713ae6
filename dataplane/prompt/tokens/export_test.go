package tokens

// SizeFor is sizeFor.
var SizeFor = sizeFor
