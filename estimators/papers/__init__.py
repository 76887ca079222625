"""The methods of four papers, as guests behind the contracts of other packages' plug-ins."""
